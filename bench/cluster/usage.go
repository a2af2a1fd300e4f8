package cluster

import (
	"os"
	"runtime"
	"time"
)

// snapshot holds the resources that all processes have used so far.
type snapshot struct {
	at                          time.Time
	coordinator, workers, redis Usage
}

func (c *cluster) snapshot() snapshot {
	s := snapshot{at: time.Now(), coordinator: UsageOf(os.Getpid())}
	for _, w := range c.workers {
		u := w.Usage()
		s.workers.CPU += u.CPU
		s.workers.Resident += u.Resident
	}
	if c.redis != nil {
		s.redis = c.redis.Usage()
	}
	return s
}

// CPU is the processor time of the three parts.
type CPU struct {
	Coordinator float64 `json:"coordinator"`
	Workers     float64 `json:"workers"`
	Redis       float64 `json:"redis"`
}

// since returns the processor time since an earlier snapshot, in seconds divided by per.
func (s snapshot) since(before snapshot, per float64) CPU {
	return CPU{
		Coordinator: (s.coordinator.CPU - before.coordinator.CPU).Seconds() / per,
		Workers:     (s.workers.CPU - before.workers.CPU).Seconds() / per,
		Redis:       (s.redis.CPU - before.redis.CPU).Seconds() / per,
	}
}

// heap returns the bytes and the number of live objects on this process's heap.
func heap() (bytes, objects int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.HeapObjects)
}
