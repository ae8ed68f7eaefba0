// Package e2e tests complete flows: the real program, real libvirt hosts and a real browser, seen from outside.
//
// All tests share one lab and one demo, which the first test that needs them starts. Faults that would disturb other
// tests are injected into separate portals and hosts. No test is skipped: "quantix doctor test" installs what they
// need.
package e2e
