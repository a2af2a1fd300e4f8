// Package models holds the language models that Coalmine trains and audits:
// their parameters, the gradient of their loss, and scoring.
//
// # Parameters
//
// All parameters of a model are one flat []float32. Its tensors are named views into it
// (Language.Tensors), so that updates, norms, clips, sums and noise treat the model as one vector,
// and a tied tensor counts once. A Language holds no parameters, only their layout:
//
//	model, err := models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: 10004, Embedding: 96, Units: 670})
//	params := model.Init(seeds.Stream(seed, seeds.Weights))
//
// One to four layers of cells lie between the embedding and the softmax:
// CIFG-LSTM, LSTM, GRU, or a convolution over the last inputs; or the blocks of a
// Transformer, which has no Trainer. The caller decides
// whether a token is a word or a byte: a model of bytes has a vocabulary of 256
// and the special tokens.
//
// # Sentences
//
// A sentence is a slice of token ids, framed by its caller: begin, words, end.
// A sentence of n tokens has n-1 targets, every token but the first, each
// predicted from the tokens before it. Sentences of one batch may differ in
// length; there is no padding, so no arithmetic is spent on it.
//
// A model with a separator (Config.Separator) is an encoder-decoder: its sentences are pairs, of a
// source, the separator and a target. The targets are then the tokens after the separator.
//
// # Training
//
// A Trainer computes the mean loss of a batch and its gradient by back-propagation through time
// over whole sentences. It owns its memory and allocates nothing after its largest batch:
//
//	trainer := model.NewTrainer()
//	loss, err := trainer.Gradient(params, sentences, gradient)
//	optimizer.Step(params, gradient, 0.5)
//
// Trainer.UseDropout drops elements of the layers' outputs in training.
//
// # Scoring
//
// A Scorer prepares one set of parameters for evaluation and serves any number
// of goroutines. States carry the model's memory from token to token:
//
//	scorer, err := model.NewScorer(params)
//	states := scorer.Start(1)
//	err = scorer.Step(states, []int32{begin})
//	err = scorer.LogProbRows(states, row) // log p of every next token
//
// States of an encoder-decoder read a source until Step feeds them the separator. The target is
// scored like any sentence.
//
// Scorer.Sample draws sequences, each from its own stream:
//
//	samples, err := scorer.Sample(models.Draw{
//		Sampling: models.Sampling{Temperature: 1}, Prefix: []int32{begin}, End: end, AtMost: 10,
//	}, streams)
//
// A TreeScorer scores the sequences of a prefix tree, and bounds probabilities at a
// fraction of their cost:
//
//	tables := scorer.Tabulate()
//	tree := tables.NewTreeScorer()
//	normaliser, err := tables.NormaliserBounds(typical)   // tight near states like these
//	err = tree.LogProbs(states, edges, logProbs)   // of tokens after states
//	err = tree.Bounds(normaliser, states, edges, intervals) // -log p lies in these intervals
//	err = tree.Advance(&next, states, edges)       // states by those tokens
//
// # Numbers
//
// Values are float32 and losses are summed in float64. Every operation has one order of arithmetic,
// so the same inputs give the same bytes. In scoring, the results for a state do not depend on
// other states in the batch or on their number: a canary and its references are comparable bit for
// bit.
package models
