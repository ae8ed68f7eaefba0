// Package archtest holds the rule who may import whom; its test is the whole of it.
package archtest
