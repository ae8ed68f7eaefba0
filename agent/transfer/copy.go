package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// blockBytes is the size of one read or write in bytes.
const blockBytes = 1 << 20

// holeHashBytes is the part of a hole that is hashed between two progress reports, because hashing zeros takes time.
const holeHashBytes = 256 << 20

// FileSum is the SHA-256 of a file's bytes; holes count as zeros.
type FileSum [sha256.Size]byte

// ErrDiffers is wrapped by the error of a copy whose bytes differ from its source.
var ErrDiffers = errors.New("the data written differs from the data read")

// CopyFile writes all of src into dst, which must be empty, and returns the sum of the bytes read. Holes stay holes.
// When CopyFile returns, the data is synced to the storage.
func CopyFile(ctx context.Context, dst, src *os.File, size int64, rate *RateLimit, meter *Meter) (FileSum, error) {
	sum := sha256.New()
	err := eachExtent(ctx, src, size, func(at int64, block []byte, n int64) error {
		if block == nil {
			meter.Add(n)
			return hashZeros(ctx, sum, n)
		}
		if err := rate.Wait(ctx, len(block)); err != nil {
			return err
		}
		sum.Write(block)
		if _, err := dst.WriteAt(block, at); err != nil {
			return err
		}
		meter.Add(n)
		return nil
	})
	if err == nil {
		err = dst.Truncate(size)
	}
	if err == nil {
		err = dst.Sync()
	}
	return FileSum(sum.Sum(nil)), err
}

// VerifyFile reads size bytes of the file back from the storage, past the page cache if possible, and compares their
// sum with the wanted sum.
func VerifyFile(ctx context.Context, f *os.File, size int64, wanted FileSum, meter *Meter) error {
	got, err := fileSum(ctx, f, size, meter)
	switch {
	case err != nil:
		return fmt.Errorf("read the copy back: %w", err)
	case got != wanted:
		return fmt.Errorf("%w: the copy has the SHA-256 %x, its source has %x", ErrDiffers, got, wanted)
	}
	return nil
}

// fileSum returns the sum of the file.
func fileSum(ctx context.Context, f *os.File, size int64, meter *Meter) (FileSum, error) {
	info, err := f.Stat()
	if err != nil {
		return FileSum{}, err
	}
	if info.Size() != size {
		return FileSum{}, fmt.Errorf("the file has %d bytes, not %d", info.Size(), size)
	}
	dropPageCache(f)
	sum := sha256.New()
	err = eachExtent(ctx, f, size, func(_ int64, block []byte, n int64) error {
		meter.Add(n)
		if block == nil {
			return hashZeros(ctx, sum, n)
		}
		sum.Write(block)
		return nil
	})
	return FileSum(sum.Sum(nil)), err
}

// eachExtent reads the file in order. It calls do with each block of data, and with a nil block for a hole of n bytes.
func eachExtent(ctx context.Context, f *os.File, size int64, do func(at int64, block []byte, n int64) error) error {
	buf := make([]byte, blockBytes)
	for at := int64(0); at < size; {
		data, hole := nextExtent(f, at, size)
		for at < data {
			n := min(data-at, holeHashBytes)
			if err := do(at, nil, n); err != nil {
				return err
			}
			at += n
		}
		for at < hole {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := f.ReadAt(buf[:min(blockBytes, hole-at)], at)
			if n == 0 {
				if err == nil || errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
			if err := do(at, buf[:n], int64(n)); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return nil
}

var zeroBlock [64 << 10]byte

// hashZeros adds n zeros to the sum.
func hashZeros(ctx context.Context, sum hash.Hash, n int64) error {
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		k := min(n, int64(len(zeroBlock)))
		sum.Write(zeroBlock[:k])
		n -= k
	}
	return context.Cause(ctx)
}
