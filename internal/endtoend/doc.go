// Package endtoend tests coalmine as users run it: the real binary, in its own
// processes, on real servers.
//
// The cluster of compose.yaml runs here as far as it can without containers: the same processes with the
// same arguments and environment, with only host names, ports and paths replaced. Its results are
// compared with those of the same experiment in one process, byte by byte. Other tests kill, interrupt
// and repeat the one-process form, and give it bad input.
//
// TestChaos plays seeded schedules of faults on clusters of real processes and servers: kills, freezes,
// lost networks, a Redis that loses its data, a store that fails, lies or tears, and an operator who
// pauses, cancels, resumes and retries, drains workers, and submits and cancels other runs. The results
// of the run must equal those of an undisturbed run, byte for byte, and every object in the store must
// be accounted for. make chaos SEEDS=200 FIRST=1 plays 200 schedules.
//
// TestChaosOfPrograms does the same to clusters that run an experiment's own programs: these are also
// killed and frozen, by themselves, with their worker or with its whole machine, and none may be left.
//
// TestSoak, which only make soak runs, trains thousands of rounds and fits a line
// through the resource use of each process.
//
// Tests whose servers are not installed are skipped (see package testserver).
package endtoend
