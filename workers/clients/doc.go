// Package clients runs external programs that train clients, and communicates with them by the
// contract "client", docs/contracts/client.md: requests and answers are JSON objects, one a line,
// on a program's standard input and output; parameters are safetensors files in shared memory.
//
//	pool := clients.NewPool(clients.Options{})
//	defer pool.Close()
//	client, err := pool.Borrow(ctx, setting) // starts a program, or reuses an idle one
//	...
//	defer client.GiveBack()
//	fitted, err := client.Fit(ctx, work)
//
// A program serves tasks in sequence, over all rounds of a training, and ends with the pool, or
// after being idle for a while. A program that broke the contract, died or was left in the middle
// of a request is not reused.
//
// Check reports the faults of an implementation.
package clients
