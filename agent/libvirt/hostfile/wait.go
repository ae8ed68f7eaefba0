package hostfile

import (
	"context"
	"fmt"
	"os"
	"time"
)

// HungStorageTimeout is how long file operations may continue after ctx ended. After this time, the agent abandons
// hanging storage.
const HungStorageTimeout = 10 * time.Second

// WaitUnlessHung runs work, which must check ctx, and waits for the result. It returns an error if the storage still
// hangs HungStorageTimeout after ctx ended.
func WaitUnlessHung(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(HungStorageTimeout):
		return fmt.Errorf("the storage did not answer in time: %w", ctx.Err())
	}
}

// RunWithinContext runs f, which may hang on storage. It abandons f and returns an error if ctx ends first.
func RunWithinContext[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("the storage did not answer in time: %w", ctx.Err())
	}
}

// SupportsDirectIO reports whether the file supports direct I/O. It returns false if the storage does not answer.
func SupportsDirectIO(ctx context.Context, path string) bool {
	ok, err := RunWithinContext(ctx, func() (bool, error) { return supportsDirectIO(path), nil })
	return ok && err == nil
}

// Exists reports whether the file exists. It fails if the storage does not answer before ctx ends.
func Exists(ctx context.Context, path string) (bool, error) {
	return RunWithinContext(ctx, func() (bool, error) {
		_, err := os.Lstat(path)
		if IsFileMissingError(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// fileLookupTimeout limits each check of a file, a backing chain or a pool that a user of the volume may name.
const fileLookupTimeout = 10 * time.Second

// RunWithinLookupTimeout runs f like RunWithinContext, with the limit fileLookupTimeout.
func RunWithinLookupTimeout[T any](ctx context.Context, f func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, fileLookupTimeout)
	defer cancel()
	return RunWithinContext(ctx, f)
}
