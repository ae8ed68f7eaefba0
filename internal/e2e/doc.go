// Package e2e tests complete flows from the outside: with the real program, real libvirt hosts and a real browser.
//
// All tests share one lab and one demo, which start when a test first needs them. Faults that would disturb other tests
// are injected into separate portals and hosts. No test is skipped: "quantix doctor test" names and installs what the
// tests need.
package e2e
