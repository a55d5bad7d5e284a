// peer.js MODE ARGUMENT... PLACE...: node-redlock over the Redis servers at these places, as peer.py does it.
// NODE_PATH has redlock and ioredis.
'use strict';
const ioredis = require('ioredis');
const Redlock = require('redlock').default || require('redlock');
const Redis = ioredis.Redis || ioredis;

const TTL_MS = 10000;
const WARM_UP_MS = 2000; // until the compiler has done its work there are a third fewer pairs
const us = () => Number(process.hrtime.bigint()) / 1e3;
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n');
const p50 = (samples) => samples.sort((a, b) => a - b)[Math.floor(samples.length / 2)];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Waits for ever, at its own pace of tries.
function locker(places) {
  const clients = places.map((place) => {
    const [host, port] = place.split(':');
    return new Redis(place.startsWith('/') ? { path: place } : { host, port: Number(port) });
  });
  const redlock = new Redlock(clients, { retryCount: -1 });
  redlock.on('error', () => {});
  redlock.on('clientError', () => {});
  const acquire = (redlock.acquire ? (name, ms) => redlock.acquire([name], ms) : (name, ms) => redlock.lock(name, ms));
  const release = (lock) => (lock.release ? lock.release() : lock.unlock());
  return { acquire, release };
}

async function acquire(places, ms) {
  const { acquire, release } = locker(places);
  const name = 'peer-' + process.pid, samples = [];
  const from = us() + WARM_UP_MS * 1e3;
  for (const until = from + ms * 1e3; us() < until;) {
    const begun = us();
    const lock = await acquire(name, TTL_MS);
    if (begun >= from) samples.push(us() - begun);
    await release(lock);
  }
  return { p50: p50(samples) };
}

// From that moment of the monotonic clock, for processes that begin together; 0: as soon as it has warmed up.
async function pairs(places, workers, ms, moment) {
  const { acquire, release } = locker(places);
  const begun = Number(moment) || us() + WARM_UP_MS * 1e3, until = begun + ms * 1e3;
  let count = 0;
  await release(await acquire('peer-' + process.pid, TTL_MS));
  if (us() > begun) throw new Error('began too late');
  const work = async (number) => {
    for (; us() < until; count += us() >= begun)
      await release(await acquire('peer-' + process.pid + '-' + number, TTL_MS));
  };
  await Promise.all(Array.from({ length: workers }, (_, number) => work(number)));
  return { pairs_per_second: count * 1e6 / (us() - begun) };
}

async function handoff(places, count) {
  const holder = locker(places), waiter = locker(places);
  const name = 'peer-' + process.pid, samples = [];
  for (let number = 0; number < count; number++) {
    const held = await holder.acquire(name, TTL_MS);
    const wanted = waiter.acquire(name, TTL_MS);
    await sleep(60 + 13 * (number % 7)); // not in step with who polls
    const begun = us();
    const [lock] = await Promise.all([wanted, holder.release(held)]);
    samples.push(us() - begun);
    await waiter.release(lock);
  }
  return { p50: p50(samples) };
}

async function hold(places, name, ttl) {
  await locker(places).acquire(name, Number(ttl));
  say({ holding: true });
  await sleep(600000);
}

async function wait(places, name, ttl) {
  const { acquire } = locker(places);
  setTimeout(() => say({ waiting: true }), 50);
  await acquire(name, Number(ttl));
  return { at_us: us() };
}

const modes = { acquire: [acquire, 1], pairs: [pairs, 3], handoff: [handoff, 1], hold: [hold, 2], await: [wait, 2] };
const [mode, wanted] = modes[process.argv[2]];
const given = process.argv.slice(3);
mode(given.slice(wanted), ...given.slice(0, wanted)).then((told) => {
  say(told);
  process.exit(0);
});
