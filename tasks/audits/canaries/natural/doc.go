// Package natural looks for secrets that are in the training text by themselves: card
// numbers, social security numbers, phone numbers, mail addresses, and what one's own
// patterns describe. Each is ranked against others of its own form, after the words that
// stand before it (Carlini et al. 2019, sections 4 and 6.3, which does so for the Enron
// mails):
//
//	audits/natural-scan     what the text has, without a model
//	audits/natural          the ranks of a share of it, under one checkpoint
//	audits/natural-summary  all of them, and the outcome
package natural
