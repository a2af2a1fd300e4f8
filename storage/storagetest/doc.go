// Package storagetest holds the suite that every storage driver passes, and a
// store in memory for the tests of other packages.
//
// A driver's test gives the suite functions that return new, empty stores and open them:
//
//	func TestContract(t *testing.T) {
//		storagetest.Run(t, storagetest.Driver{
//			Location: func(t testing.TB) string { return t.TempDir() },
//			Open:     func(t testing.TB, location string) storage.Store { ... },
//		})
//	}
//
// [WithFaults] makes chosen calls of any store fail.
package storagetest
