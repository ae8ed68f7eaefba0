//go:build ordeal

package tier

// Ordeal is true where the tests were built for the ordeal.
const Ordeal = true
