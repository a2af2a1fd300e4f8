// Package policy holds the rules by which a coordinator decides, each with its number
// and why it has that value. They are constants unless a flag is named: whoever changes
// one changes it here, and nowhere else.
package policy

import (
	"time"

	"coalmine/storage"
	"coalmine/workflows/runs"
)

// Attempts at a task.
const (
	// MaxTries is how often a task is tried whose attempts end in errors that another
	// try may mend. A fault of a network or a disk is over by the fifth try, half a
	// minute after the first; one that isn't is no accident.
	MaxTries = 5
	// MaxFurther is up to which attempt one that has kept something new counts as none of
	// those tries: a training that leaves every hour and goes on later may last for six
	// weeks. One that never ends must end some day.
	MaxFurther = 1000
	// MaxMemoryDeaths is the number of workers near a memory limit whose deaths give a task up: it
	// probably needs more memory than they have, and each try costs a worker its other tasks. Two
	// may die by chance at the same task, from memory that another of their tasks used.
	MaxMemoryDeaths = 3
	// MaxDeaths is the number of other deaths that give a task up. Rented machines are taken away at
	// any moment, so these deaths say little about the task: even if two of three attempts are cut off,
	// fewer than one task in 3,000 loses twenty workers in a row. The limit also ends a task whose fault
	// kills every worker; DeathPause keeps it from taking a whole cluster down first.
	MaxDeaths = 20
	// MaxMissing is how often the same input may be missing for the same task before
	// that counts as a failure: something deletes what we make.
	MaxMissing = 6
	// PurgeAfter is how often it may be missing before storage is not believed when it
	// says that the input is there: its bytes must be damaged.
	PurgeAfter = 2
	// TaskTimeout ends attempts that hang: none should take hours, but for the commands of
	// experiments, which get what their limits give them on top. Flag: --task-timeout.
	TaskTimeout = 12 * time.Hour
)

// Backoff is the pause before the next try after n have failed, or one that came further: 1 s, 2 s, 4 s and so
// on, at most a minute, so that a fault of some minutes costs little more than it lasts.
func Backoff(n int) time.Duration {
	return min(time.Second<<min(max(n, 1)-1, 10), time.Minute)
}

// Deaths counts the deaths of workers with a task: those near a limit of memory, and others.
func Deaths(deaths []runs.Death) (memory, other int) {
	for _, d := range deaths {
		if nearLimit(d) {
			memory++
		}
	}
	return memory, len(deaths) - memory
}

// nearLimit reports whether a worker used nine tenths of its memory limit, by its last heartbeat. Workers
// drop their caches and hand tasks back at the limit, so healthy ones rarely use more; they send a
// heartbeat when they do.
func nearLimit(d runs.Death) bool {
	return d.MemoryLimitBytes > 0 && d.MemoryBytes >= d.MemoryLimitBytes/10*9
}

// Deadly reports whether a task with these deaths of workers is given up.
func Deadly(deaths []runs.Death) bool {
	memory, other := Deaths(deaths)
	return memory >= MaxMemoryDeaths || other >= MaxDeaths
}

// DeathPause is the pause before a task is sent again after n workers died with it: none for the first two
// deaths, since other workers can take the task at once, then that of Backoff, up to a minute.
func DeathPause(n int) time.Duration {
	if n < 3 {
		return 0
	}
	return Backoff(n - 2)
}

// ReturnedPause is the pause before a task is sent again that has been handed back n
// times: 0.1 s at first, since another worker may take it at once; at most 5 s, since
// that can go on for hours, as while the store is full. It is longer by up to a half,
// so that tasks which were handed back together do not all come again together. By how
// much depends on the key alone: a term can be repeated step by step.
func ReturnedPause(key storage.Key, n int) time.Duration {
	pause := min(50*time.Millisecond<<min(n, 7), 5*time.Second)
	return pause + pause*time.Duration(key.Digest[0])/512
}

// Stragglers.
const (
	// StragglersEvery is how often stragglers are looked for.
	StragglersEvery = time.Second

	stragglerFactor  = 3
	stragglerFloor   = 10 // seconds
	stragglerSamples = 3
)

// Straggles reports whether an attempt that has run for so many seconds takes far
// longer than its siblings, of which so many are known with this median: three times
// as long, which the spread of healthy machines does not explain, and ten seconds at
// least, below which a second attempt would gain little. Such an attempt gets a second
// one beside it while there are slots that nobody needs; the first commit wins.
func Straggles(seconds, median float64, siblings int) bool {
	return siblings >= stragglerSamples && seconds > max(stragglerFactor*median, stragglerFloor)
}

// Look-ahead and shares.
const (
	// PerSlot is how many attempts are sent for each live slot: one that runs, and one
	// at hand when it ends. More would be decided earlier than needed: priorities,
	// pauses and fairness count when an attempt is sent. Flag: --class-limit bounds the
	// attempts of a class besides.
	PerSlot = 2

	leastLong = 1 // seconds
	shorter   = 2
)

// Yields reports whether a task of a training that takes so many seconds leaves slots
// to trainings whose tasks take less: at most half as long, since alike tasks take
// turns anyway; and only if it takes a second at least, since shorter ones hold nobody
// up.
func Yields(long, short float64) bool { return IsLong(long) && short*shorter <= long }

// IsLong reports whether tasks of so many seconds may have to yield.
func IsLong(seconds float64) bool { return seconds >= leastLong }

// Share is how many of the slots of a class are left to quick trainings, by their
// number among all: rounded up, so that one slot is left to a single quick training.
func Share(slots, quick, others int) int {
	all := quick + others
	return (slots*quick + all - 1) / all
}

// Liveness of workers and of what was sent.
const (
	// WorkersEvery is how often heartbeats are read. They live for three seconds, so a
	// lost worker is noticed within four.
	WorkersEvery = 500 * time.Millisecond
	// HeartbeatPatience is how long a new leader waits for heartbeats before it says
	// that there are no workers: as long as they live.
	HeartbeatPatience = 3 * time.Second
	// RecheckEvery is how often an attempt in flight is looked for in storage: its
	// report may have been lost. One HEAD for each attempt.
	RecheckEvery = 5 * time.Second
	// KnownEvery is how often the queue is asked whether it still has what was sent.
	// What it has not known KnownMisses times in a row is sent again; once may be the
	// moment between leaving the queue and showing in a heartbeat.
	KnownEvery  = 2 * time.Second
	KnownMisses = 2
)

// Runs and their records.
const (
	// DiscoverEvery is how often the runs at work are read again, and new ones looked
	// for, without a nudge: a nudge may be lost with the queue. Finished runs are read
	// again every DiscoverAllEvery, since few of them are ever resumed.
	DiscoverEvery    = 5 * time.Second
	DiscoverAllEvery = time.Minute
	// MaxPlans is how often a plan is tried before its run is rejected.
	MaxPlans = 5
	// AssureAgain is the pause before a run's outcome is looked at again, after a batch
	// of a collection was under way.
	AssureAgain = 100 * time.Millisecond
)

// StorageRetries are the pauses before a question to storage, or a write, that met an
// error is tried again; the last one repeats for as long as it is needed. A run is never
// failed for that.
var StorageRetries = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second}

// Deletions behind trainings.
const (
	// DeleteAtOnce is how many retirements one job carries out.
	DeleteAtOnce = 8
	// MaxRetired bounds the list of a chain when deleting fails for long: what is
	// dropped from it is left to garbage collection.
	MaxRetired = 512
	// TidyPatience is how long the end of a run waits for its chains' deletions, so
	// that a process that ends with its run leaves nothing.
	TidyPatience = 10 * time.Second
)

// What people see.
const (
	// SnapshotEvery is how often statuses are renewed in the leader's process, and
	// PublishEvery how often they are published for others, at most. A published status
	// outlives its coordinator by PublishedTTL.
	SnapshotEvery = 250 * time.Millisecond
	PublishEvery  = time.Second
	PublishedTTL  = 10 * time.Second
	// Fleeting is how long reasons for waiting are left unsaid that come and go by the
	// second while a run works as it should.
	Fleeting = 5 * time.Second
)
