// Package canaries draws sequences to insert into training data on purpose, to measure later which
// of them a model memorized (Carlini et al. 2019, The Secret Sharer), and inserts them by users and
// examples, as the federated secret sharer does (Thakkar et al. 2020, section 3 and Figure 1).
//
// Two kinds of task follow one another:
//
//	draw    vocabulary -> a list of canaries, some of them held back
//	insert  balanced users, canaries -> an overlay: which example of which user
//	        is replaced by which canary
//
// Each canary has a configuration (p_u, p_e): every balanced user is selected to carry it with
// probability p_u, and each example of a selected user is replaced with probability p_e, all
// independently.
package canaries

import "coalmine/tasks"

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Draw, Insert} }
