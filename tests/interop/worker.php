<?php
// worker.php KIND RESOURCE NAME TTL_MS PLACE...: worker.py for symfony/lock, as Debian has it. One worker a process.
require '/usr/share/php/Symfony/Component/Lock/autoload.php';

use Symfony\Component\Lock\Exception\ExceptionInterface;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

[, , $resourcePath, $name, $ttl] = $argv;
$counts = ['sections' => 0, 'overlaps' => 0, 'gave_up' => 0, 'errors' => 0, 'overruns' => 0, 'longest_wait_ms' => 0];

function say(array $what): void
{
    echo json_encode($what), "\n";
}

function connect(string $path): Redis
{
    $redis = new Redis();
    $redis->connect($path, 0, 2.0);
    return $redis;
}

function section(Redis $resource, string $name, float $ms): void
{
    global $counts;
    if ($resource->incr("inside:$name") !== 1) {
        $counts['overlaps']++;
    }
    $value = (int) $resource->get("count:$name");
    usleep((int) ($ms * 1000));
    $resource->set("count:$name", $value + 1);
    $resource->decr("inside:$name");
    $counts['sections']++;
}

function contend(LockFactory $factory, float $seconds, float $ms, float $pauseMs): array
{
    global $counts, $resourcePath, $name, $ttl;
    $resource = connect($resourcePath);
    $until = microtime(true) + $seconds;
    $waitBegan = microtime(true);
    while (microtime(true) < $until) {
        $lock = $factory->createLock($name, $ttl / 1000, false);
        $held = false;
        // acquire(true) waits for ever, with 100 ms and a little between its tries.
        for ($tries = 0; !$held && $tries < 20 && microtime(true) < $until; $tries++) {
            if ($tries > 0) {
                usleep((100 + random_int(-10, 10)) * 1000);
            }
            try {
                $held = $lock->acquire();
            } catch (ExceptionInterface | RedisException $error) {
                $counts['errors']++;
            }
        }
        $counts['longest_wait_ms'] = max($counts['longest_wait_ms'], (int) ((microtime(true) - $waitBegan) * 1000));
        if (!$held) {
            $counts['gave_up']++;
            continue;
        }
        $acquired = microtime(true);
        section($resource, $name, $ms);
        if (microtime(true) - $acquired > 0.9 * $ttl / 1000) {
            $counts['overruns']++;
        }
        try {
            $lock->release();
        } catch (ExceptionInterface | RedisException $error) {
            $counts['errors']++;
        }
        usleep(random_int(0, (int) ($pauseMs * 1000)));
        $waitBegan = microtime(true);
    }
    return $counts;
}

$stores = array_map(fn ($path) => new RedisStore(connect($path), $ttl / 1000), array_slice($argv, 5));
$factory = new LockFactory(new CombinedStore($stores, new ConsensusStrategy()));
$lock = null;
say(['ready' => true]);
while (($line = fgets(STDIN)) !== false) {
    $given = explode(' ', trim($line));
    if ($given[0] === 'contend') {
        say(contend($factory, (float) $given[1], (float) $given[2], (float) $given[3]));
    } elseif ($given[0] === 'release') {
        $lock->release();
        say(['released' => true]);
    } else {
        $lock = $factory->createLock($name, $ttl / 1000, false);
        try {
            say(['held' => $lock->acquire($given[0] === 'wait')]);
        } catch (ExceptionInterface | RedisException $error) {
            say(['held' => false, 'error' => $error->getMessage()]);
        }
    }
}
