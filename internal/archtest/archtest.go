// Package archtest has tests that check the import rules, and the form of the decision records and of README.
package archtest
