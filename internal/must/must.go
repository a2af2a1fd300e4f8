// Package must ends a test at an error in its setup, checks the words of an expected error, and waits for
// events outside of the test.
package must

import (
	"strings"
	"time"
)

// T is a *testing.T, *testing.B, testing.TB or *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a function that ends the test if err is not nil, and returns v otherwise:
//
//	data := must.Get(os.ReadFile(name))(t)
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Say fails the test if err is nil or its message lacks one of the words.
func Say(t T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", words)
		return
	}
	for _, want := range words {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want one that says %q", err, want)
		}
	}
}

// patience exceeds the time that an event takes on a busy machine.
const patience = 3 * time.Minute

// Await returns once ok returns true, and ends the test if that takes minutes. It calls ok every few
// milliseconds. Use it for events that no channel announces, such as those of other processes.
func Await(t T, event string, ok func() bool) {
	t.Helper()
	deadline, again := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("waited in vain: " + event)
		}
	}
}
