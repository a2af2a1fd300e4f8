// Package storagetest holds the suite that every storage driver passes, and a
// store in memory for the tests of other packages.
//
// A driver's test hands the suite a way to open its store:
//
//	func TestContract(t *testing.T) {
//		storagetest.Run(t, storagetest.Driver{Open: func(t *testing.T) storage.Store { ... }})
//	}
//
// Package fault, below, makes chosen calls of any store go wrong.
package storagetest
