package transfer

import (
	"context"
	"os"
)

// zeroSyncBytes is the number of bytes written between two syncs, which limits the delay of a cancel.
const zeroSyncBytes = 32 << 20

// ZeroFile overwrites all data of the file with zeros; holes stay holes. When ZeroFile returns, the zeros are synced to
// the storage. After a cancel, the data overwritten so far is lost.
func ZeroFile(ctx context.Context, f *os.File, size int64, meter *Meter) error {
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
			if waits >= zeroSyncBytes {
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
