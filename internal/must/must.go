// Package must ends a test at an error in its setup.
package must

// T is a *testing.T, *testing.B, testing.TB or *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
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
