// Package e2e holds whole flows as tests: the real program, real libvirt hosts and a real browser, seen from outside.
//
// One lab and one demo are started for all tests, each when the first test asks for it. Faults that would disturb others
// are tried on portals and hosts of their own. Nothing is skipped: what the tests need is installed by "quantix doctor test".
package e2e
