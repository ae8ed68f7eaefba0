// Package archtest has tests that check the import rules, the words in comments and pages, and the form of the decision
// records and of README.
package archtest
