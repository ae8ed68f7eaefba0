package hypervisor

import (
	"errors"

	"quantix/internal/fleet"
)

// ErrCancelled is the error of a job that was cancelled and has undone its changes.
var ErrCancelled = errors.New("the job was cancelled, and its changes were undone")

// MoveDiskWork is the job that moves a VM's disk into another pool of the host.
type MoveDiskWork struct {
	VM     fleet.VM
	Pools  []fleet.Pool // the pools that the VM's spec names, and the target pool
	Params fleet.DiskMigrationParams
	// the file in the destination pool that an earlier attempt of this job passed to RecordFile; empty if no file was
	// recorded
	RecordedFile string
	// RecordFile receives the file in the destination pool before the file has data. If RecordFile fails, the job ends.
	RecordFile func(file string) error
	// RecordDisk receives the new disk before the definition names it, once the guest no longer needs the old disk. If
	// RecordDisk fails, the job ends.
	RecordDisk func(fleet.Volref) error
	// Stop is closed to cancel the move: all changes are undone, and the error is ErrCancelled. If the guest already
	// uses the new disk, the move completes instead.
	Stop     <-chan struct{}
	Progress Progress
}

// IsCancelled reports whether a user has cancelled the move.
func (m MoveDiskWork) IsCancelled() bool {
	select {
	case <-m.Stop:
		return true
	default:
		return false
	}
}

// FormatCopyProgress formats the progress of a copy for people.
func FormatCopyProgress(act string, done, total, rate int64) (percent int, note string) {
	percent, note = FormatDownloadProgress(done, total, rate)
	return percent, act + ", " + note
}
