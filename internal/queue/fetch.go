package queue

import "github.com/redis/go-redis/v9"

// fetch takes tasks by as many copies of the command, and answers it with the first.
func (h *dequeueHook) fetch(cmd *redis.Cmd, tokens int) error {
	select {
	case h.hand <- struct{}{}:
	case <-h.stopped.Done():
		return h.stopped.Err()
	}
	copies, waiting := h.send(cmd, tokens)
	for _, c := range copies {
		if c.Err() == nil {
			h.fetched = append(h.fetched, c.Val())
		}
	}
	h.appetite = max(1, min((waiting+1)/2, maxAppetite))
	if len(h.fetched) == 0 {
		<-h.hand
		cmd.SetErr(copies[0].Err())
		return cmd.Err()
	}
	h.handOut(cmd)
	return nil
}

// send sends copies of the command in one round trip, each with a token, and tells
// how many tasks wait after that.
func (h *dequeueHook) send(cmd *redis.Cmd, tokens int) (copies []*redis.Cmd, waiting int) {
	copies = make([]*redis.Cmd, min(h.appetite, h.free()))
	pipe := h.plain.Pipeline()
	if missing := len(copies) - tokens; missing > 0 {
		pipe.LPopCount(h.cut, h.wakes, missing)
	}
	for i := range copies {
		copies[i] = redis.NewCmd(h.cut, cmd.Args()...)
		_ = pipe.Process(h.cut, copies[i])
	}
	left := pipe.LLen(h.cut, h.pending)
	_, _ = pipe.Exec(h.cut) // each has an error of its own; missing tokens are none
	return copies, int(left.Val())
}

// handOut answers with the oldest task that was fetched.
func (h *dequeueHook) handOut(cmd *redis.Cmd) {
	h.begins.Add(1)
	cmd.SetErr(nil)
	cmd.SetVal(h.fetched[0])
	if h.fetched = h.fetched[1:]; len(h.fetched) == 0 {
		h.fetched = nil
		<-h.hand
	}
}

// free is how many handlers more may run, but at least the one that asynq asks for.
func (h *dequeueHook) free() int {
	return max(1, cap(h.slots)-len(h.slots)-int(h.begins.Load()))
}

// enter is called when a handler begins, and returns what to call at its end.
func (h *dequeueHook) enter() (leave func()) {
	h.slots <- struct{}{}
	h.begins.Add(-1)
	return func() { <-h.slots }
}
