package transfer

import (
	"context"
	"os"
)

// syncBytes is how much is written before the storage is waited for, so that whoever ends it waits for no more than that.
const syncBytes = 32 << 20

// Zero writes zeros over all that the file has on its storage. Holes stay holes: there is nothing in them. The zeros have reached the storage
// when it returns; where it ends early, what it has come to is gone.
func Zero(ctx context.Context, f *os.File, size int64, meter *Meter) error {
	block, waits := make([]byte, blockBytes), int64(0)
	for at := int64(0); at < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data, hole := nextExtent(f, at, size)
		for at = data; at < hole; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := f.WriteAt(block[:min(blockBytes, hole-at)], at)
			if err != nil {
				return err
			}
			at, waits = at+int64(n), waits+int64(n)
			if waits >= syncBytes {
				waits = 0
				if err := f.Sync(); err != nil {
					return err
				}
			}
			meter.Add(int64(n))
		}
	}
	return f.Sync()
}
