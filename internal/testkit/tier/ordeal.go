//go:build ordeal

package tier

// Ordeal is true if the tests are built with the tag "ordeal".
const Ordeal = true
