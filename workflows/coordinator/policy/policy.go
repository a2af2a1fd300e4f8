// Package policy holds the rules of a coordinator's decisions, each with its value and the reason. They are
// constants unless a flag is named. Change rules only here.
package policy

import (
	"fmt"
	"strings"
	"time"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/workflows/runs"
)

// Attempts at a task.
const (
	// MaxTries is the number of attempts of a task that may end in retryable errors. A fault of a network
	// or a disk is over by the fifth try, 15 s after the first; a longer one counts as permanent.
	MaxTries = 5
	// MaxFurther is the number of attempts, without those handed back, after which a failed attempt counts
	// as a try even if it made progress: a training that stops every hour and continues later may last six
	// weeks, but must end some day.
	MaxFurther = 1000
	// MaxMemoryDeaths is the number of deaths of workers near a memory limit after which a task is given
	// up: it probably needs more memory than they have, and each try costs a worker its other tasks. Two
	// may die by chance at the same task, from memory that another of their tasks used.
	MaxMemoryDeaths = 3
	// MaxDeaths is the number of other deaths after which a task is given up. Rented machines are taken
	// away at any moment, so these deaths are little evidence about the task: even if two of three attempts
	// are cut off, fewer than one task in 3,000 loses twenty workers in a row. The limit also ends a task
	// that kills every worker; DeathPause keeps the task from killing a whole cluster first.
	MaxDeaths = 20
	// MaxMissing is the number of times that the same input may be missing for the same task. More count as
	// a failure: another program deletes the outputs.
	MaxMissing = 6
	// PurgeAfter is the number of times that an input in storage may be missing for
	// a worker before its bytes are presumed damaged.
	PurgeAfter = 2
	// TaskTimeout ends hanging attempts. Only the commands of experiments should take hours, and an
	// attempt's timeout adds their limits. Flag: --task-timeout.
	TaskTimeout = 12 * time.Hour
)

// Backoff returns the pause after n failed tries, or after one that made progress if n is 0: 1 s, 2 s, 4 s
// and so on, at most a minute, so that a fault of some minutes costs little more than its duration.
func Backoff(n int) time.Duration { return min(time.Second<<min(max(n, 1)-1, 10), time.Minute) }

// Repeats reports whether the last two attempts of a task ended with the same message of an external
// program. The task is then given up, because it would end the same way again. An attempt that ended in
// another way has an empty message.
func Repeats(before, now string) bool { return now != "" && now == before }

// Deaths counts the deaths of workers with a task: near a memory limit, and others.
func Deaths(deaths []runs.Death) (memory, other int) {
	for _, d := range deaths {
		if nearLimit(d) {
			memory++
		}
	}
	return memory, len(deaths) - memory
}

// DeathsText counts deaths for people, such as "died 3 times near its memory limit (at most 3)".
func DeathsText(deaths []runs.Death) string {
	memory, other := Deaths(deaths)
	var texts []string
	if memory > 0 {
		texts = append(texts, fmt.Sprintf("%s near its memory limit (at most %d)", readable.Count(memory, "time"), MaxMemoryDeaths))
	}
	if other > 0 {
		texts = append(texts, fmt.Sprintf("%s for other reasons (at most %d)", readable.Count(other, "time"), MaxDeaths))
	}
	return "died " + strings.Join(texts, " and ")
}

// nearLimit reports whether a worker used at least nine tenths of its memory limit at its last heartbeat. Workers
// drop their caches and hand tasks back at the limit, so healthy ones rarely use more; they send a heartbeat when
// they do.
func nearLimit(d runs.Death) bool {
	return d.MemoryLimitBytes > 0 && d.MemoryBytes >= d.MemoryLimitBytes/10*9
}

// DeathsLeft returns the number of further deaths of one kind after which a task with these deaths is given
// up, 0 or less if it is given up already.
func DeathsLeft(deaths []runs.Death) int {
	memory, other := Deaths(deaths)
	return min(MaxMemoryDeaths-memory, MaxDeaths-other)
}

// DeathPause returns the pause before a task is sent again after n workers died with it: 0 for the first
// two deaths, because other workers can take the task at once, then as Backoff, up to a minute.
func DeathPause(n int) time.Duration {
	if n < 3 {
		return 0
	}
	return Backoff(n - 2)
}

// ReturnedPause returns the pause after a task was handed back n times: 0.1 s at first, because another
// worker may take it at once; at most 5 s, because it can be handed back for hours, for instance while
// the store is full. Up to a half is added, so that tasks which were handed back together are not sent
// together. The addition depends only on the key, so that a term can be repeated step by step.
func ReturnedPause(key storage.Key, n int) time.Duration {
	pause := min(50*time.Millisecond<<min(n, 7), 5*time.Second)
	return pause + pause*time.Duration(key.Digest[0])/512
}

// Stragglers.
const (
	// StragglersEvery is the interval of the search for stragglers.
	StragglersEvery = time.Second

	stragglerFactor  = 3
	stragglerFloor   = 10 // seconds
	stragglerSamples = 3
)

// Straggles reports whether an attempt that has run for a number of seconds takes far longer than its
// siblings, given their number and median: three times as long, which the spread of healthy machines does
// not explain, and at least ten seconds, below which a second attempt would gain little. Its task gets a
// second attempt while slots are idle; the first commit wins.
func Straggles(seconds, median float64, siblings int) bool {
	return siblings >= stragglerSamples && seconds > max(stragglerFactor*median, stragglerFloor)
}

// Look-ahead and shares.
const (
	// PerSlot is the number of attempts sent for each live slot: one runs, and one is ready when it ends.
	// More would fix decisions too early, because priorities, pauses and fairness count when an attempt is
	// sent. Flag: --class-limit also bounds the attempts of a class.
	PerSlot = 2

	minLong = 1 // seconds
	shorter = 2
)

// Yields reports whether a training with tasks of long seconds leaves slots to trainings with tasks of
// short seconds: short is at most half of long, because similar tasks take turns anyway; and long is at
// least a second, because shorter tasks delay no other.
func Yields(long, short float64) bool { return IsLong(long) && short*shorter <= long }

// IsLong reports whether tasks of a duration may have to yield.
func IsLong(seconds float64) bool { return seconds >= minLong }

// Share returns the number of slots of a class reserved for quick trainings, by their share of all
// trainings, rounded up so that a single quick training gets a slot.
func Share(slots, quick, others int) int {
	all := quick + others
	return (slots*quick + all - 1) / all
}

// Liveness of workers and of sent attempts.
const (
	// WorkersEvery is the interval of reading heartbeats. A heartbeat lives for three seconds, so a lost
	// worker is noticed within four.
	WorkersEvery = 500 * time.Millisecond
	// HeartbeatPatience is the time that a new leader waits before it reports that there are no workers:
	// the lifetime of a heartbeat.
	HeartbeatPatience = 3 * time.Second
	// RecheckEvery is the interval of looking up an attempt in flight in storage, with one HEAD each,
	// because its report may be lost.
	RecheckEvery = 5 * time.Second
	// KnownEvery is the interval of asking the queue for the sent attempts. An attempt unknown KnownMisses times in a
	// row is sent again; it may be unknown once, between leaving the queue and showing in a heartbeat.
	KnownEvery  = 2 * time.Second
	KnownMisses = 2
)

// Runs and their records.
const (
	// DiscoverEvery is the interval of reading the active runs and looking for new ones without a nudge, which may be
	// lost with the queue. Finished runs are read again every DiscoverAllEvery, because few of them are ever resumed.
	DiscoverEvery    = 5 * time.Second
	DiscoverAllEvery = time.Minute
	// MaxPlans is the number of tries to make a plan before its run is rejected.
	MaxPlans = 5
	// VerifyAgain is the pause before a run's outcome is looked up again, after targets were missing or a
	// collection interfered.
	VerifyAgain = 100 * time.Millisecond
)

// StorageRetries are the pauses before a failed read or write of storage is tried again; the last one
// repeats as long as needed. Such an error never fails a run.
var StorageRetries = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second}

// Deletions behind trainings.
const (
	// DeleteAtOnce is the number of retirements per job.
	DeleteAtOnce = 8
	// MaxRetired limits the list of a chain if deleting fails for long: garbage
	// collection deletes the dropped entries.
	MaxRetired = 512
	// TidyPatience is the longest time that the end of a run waits for its chains' deletions, so that a
	// process that ends with its run leaves nothing behind.
	TidyPatience = 10 * time.Second
)

// Intervals of displays.
const (
	// SnapshotEvery is the interval of renewing statuses in the leader's process, and
	// PublishEvery the minimum interval of publishing them for other processes. A
	// published status outlives its coordinator by PublishedTTL.
	SnapshotEvery = 250 * time.Millisecond
	PublishEvery  = time.Second
	PublishedTTL  = 10 * time.Second
	// ShortWait is the time before short-lived reasons for waiting are shown: they come
	// and go by the second in a healthy run.
	ShortWait = 5 * time.Second
)
