//go:build !unix

package load

func checkOpenFileLimit(int) error { return nil }
