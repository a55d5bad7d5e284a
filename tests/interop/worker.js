// worker.js KIND RESOURCE NAME TTL_MS PLACE...: worker.py for libraries of npm. NODE_PATH has them.
'use strict';
const readline = require('readline');
const { Redis } = require('ioredis');

const [kind, resourcePath, name, ttlText, ...places] = process.argv.slice(2);
const TTL_MS = Number(ttlText);
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n');
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const now = () => Number(process.hrtime.bigint()) / 1e6;
const counts = { sections: 0, overlaps: 0, gave_up: 0, errors: 0, overruns: 0, longest_wait_ms: 0 };

// A command to a node that is down fails at once. With ioredis' own settings it waits for the node's return.
function connect(path) {
  const client = new Redis({ path, enableOfflineQueue: false, maxRetriesPerRequest: 0 });
  client.on('error', () => {});
  return new Promise((done) => client.once('ready', () => done(client)));
}

// Each: (clients, patient) => a locker. Its acquire() gives a handle, or null, or throws, which is the same to most.
// What is not said here is the library's default.
function classic(Redlock, clients, patient) {
  const redlock = new Redlock(clients, patient ? {} : { retryCount: 0 });
  redlock.on('error', () => {});
  redlock.on('clientError', () => {});
  return {
    acquire: () => (redlock.acquire ? redlock.acquire([name], TTL_MS) : redlock.lock(name, TTL_MS)),
    release: (lock) => (lock.release ? lock.release() : lock.unlock()),
  };
}

const kinds = {
  'redlock@4.2.0': (clients, patient) => classic(require('redlock'), clients, patient),
  'redlock@5.0.0-beta.2': (clients, patient) => classic(require('redlock').default, clients, patient),
  '@sesamecare-oss/redlock@1.4.0': (clients, patient) =>
    classic(require('@sesamecare-oss/redlock').Redlock, clients, patient),
  'redlock-universal@0.8.5': (clients, patient) => {
    const { createRedlock, IoredisAdapter } = require('redlock-universal');
    const lock = createRedlock({ adapters: clients.map((client) => new IoredisAdapter(client)), key: name, ttl: TTL_MS,
      ...(patient ? {} : { retryAttempts: 0 }) });
    return { acquire: () => lock.acquire(), release: (handle) => lock.release(handle) };
  },
  'redis-semaphore@5.8.0': (clients, patient) => {
    const { RedlockMutex } = require('redis-semaphore');
    const options = { lockTimeout: TTL_MS, acquireTimeout: 2000, onLockLost: () => counts.errors++ };
    return {
      acquire: async () => {
        const mutex = new RedlockMutex(clients, name, options);
        return (patient ? (await mutex.acquire(), true) : await mutex.tryAcquire()) ? mutex : null;
      },
      release: (mutex) => mutex.release(),
    };
  },
  '@microfleet/ioredis-lock@6.0.1': (clients, patient) => {
    const { createLock } = require('@microfleet/ioredis-lock');
    return {
      acquire: async () => {
        const lock = createLock(clients[0], { timeout: TTL_MS, retries: patient ? 40 : 0, delay: 50 });
        await lock.acquire(name);
        return lock;
      },
      release: (lock) => lock.release(),
    };
  },
};

async function section(resource, ms) {
  if (await resource.incr('inside:' + name) !== 1) counts.overlaps++;
  const value = Number(await resource.get('count:' + name));
  await sleep(ms);
  await resource.set('count:' + name, value + 1);
  await resource.decr('inside:' + name);
  counts.sections++;
}

async function contend(until, ms, pauseMs) {
  const resource = await connect(resourcePath);
  const locker = kinds[kind](await Promise.all(places.map(connect)), true);
  let waitBegan = now();
  while (now() < until) {
    let handle = null;
    try {
      handle = await locker.acquire();
    } catch {}
    counts.longest_wait_ms = Math.max(counts.longest_wait_ms, Math.round(now() - waitBegan));
    if (!handle) {
      counts.gave_up++;
      await sleep(10);
      continue;
    }
    const acquired = now();
    await section(resource, ms);
    if (now() - acquired > 0.9 * TTL_MS) counts.overruns++;
    try {
      await locker.release(handle);
    } catch {
      counts.errors++;
    }
    await sleep(Math.random() * pauseMs);
    waitBegan = now();
  }
}

async function main() {
  const clients = await Promise.all(places.map(connect));
  const lockers = { try: kinds[kind](clients, false), wait: kinds[kind](clients, true) };
  let held = null;
  say({ ready: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...given] = line.split(' ');
    if (command === 'release') {
      await lockers.wait.release(held);
      say({ released: true });
    } else if (command === 'contend') {
      const [seconds, ms, pauseMs, workers] = given.map(Number), until = now() + seconds * 1000;
      await Promise.all(Array.from({ length: workers }, () => contend(until, ms, pauseMs)));
      say(counts);
    } else {
      try {
        held = await lockers[command].acquire();
        say({ held: !!held });
      } catch (error) {
        say({ held: false, error: String(error) });
      }
    }
  }
  process.exit(0);
}

process.on('unhandledRejection', () => counts.errors++);
main();
