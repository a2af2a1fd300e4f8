// Package audits holds what the audits below it share; each has a folder:
//
//	randomsampling  the rank of each canary among random sequences
//	beamsearch      an attempt to extract each canary
//	summary         both, for all canaries of one checkpoint
//	onerun          a lower bound on epsilon, from canaries of its own
//	utility         how useful the model is: recall@1 and perplexity
package audits
