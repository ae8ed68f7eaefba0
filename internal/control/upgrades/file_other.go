//go:build !unix

package upgrades

const openFlags = 0
