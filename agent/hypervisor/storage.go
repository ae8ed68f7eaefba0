package hypervisor

import (
	"context"
	"io"

	"quantix/internal/fleet"
)

// Storage sets up the host's pools and executes jobs for their volumes.
type Storage interface {
	// ApplyPool defines, builds (directory created if missing), starts, autostarts and refreshes the pool. It refuses
	// if a libvirt pool with that name has another source, or if a pool with another name has the same source (see
	// RefuseTakenPoolSource). It also refuses a directory outside the agent's pooldir.PoolRoots and a directory with
	// another pool's marker. Once the pool has been active, ApplyPool refuses every directory except the recorded one.
	// In a refused directory it creates nothing and does not start the pool. It never builds block pools: their storage
	// must exist.
	ApplyPool(ctx context.Context, pool fleet.Pool) error
	// ReapplyPool works like ApplyPool, but first defines a pool that Quantix created again, which overwrites edits of its
	// definition. It stops a pool that runs with the edited definition. It does not change the definition of a pool that
	// the host had before Quantix.
	ReapplyPool(ctx context.Context, pool fleet.Pool) error
	// SetPoolSecret stores the credential for the pool's storage in the hypervisor, and only the hypervisor can read
	// it. Call SetPoolSecret before ApplyPool. ReleasePool removes the credential. If the stored credential is equal,
	// SetPoolSecret changes nothing.
	SetPoolSecret(ctx context.Context, pool fleet.Pool, secret string) error
	// ReleasePool stops and undefines the pool and preserves its data. It refuses while a domain on this host uses the
	// pool's volumes. A pool that the host had before Quantix stays defined, becomes active or inactive as before, and
	// unmanaged domains may still use it. ReleasePool removes the pool's marker; the marker of a shared pool stays
	// until the pool itself is deleted.
	ReleasePool(ctx context.Context, pool fleet.Pool) error

	// The following methods work on one volume. The pool must be active, on its recorded directory and within
	// pooldir.PoolRoots. The volume is a regular file of that directory, or libvirt's volume in a block pool; a volume
	// to create must not exist. The backend searches for users of the file at the time of the call. The backend
	// compares the file itself, not the paths in definitions. The error names the domain that uses the file. An
	// unfinished file does not count as a volume: the next attempt removes it, and until then it is listed as
	// unfinished.

	// CreateVolume creates an empty volume.
	CreateVolume(ctx context.Context, in VolumeWork) error
	// CloneVolume copies Params.Source in its format. It refuses a volume that a running guest uses, that changes during
	// the copy, or that has a backing file.
	CloneVolume(ctx context.Context, in VolumeWork) error
	// FetchVolume downloads Params.URL, verifies Params.Checksum, and refuses a file that is not a self-contained image.
	// It connects only to addresses that the agent's settings allow, even after name resolution and redirects.
	FetchVolume(ctx context.Context, in VolumeWork) error
	// UploadVolume receives Params.SizeBytes through the connections of UploadConns, verifies Params.Checksum, and
	// refuses the same files as FetchVolume. If ctx ends early, the received bytes stay, and the next job with the same
	// Params.Upload resumes the upload.
	UploadVolume(ctx context.Context, in VolumeWork) error
	// RenameVolume renames Params.Source, an unused volume of the pool, to in.Name, unless that name exists. It first
	// reports the file to in.RecordFile, so that a repeated job recognizes its own file.
	RenameVolume(ctx context.Context, in VolumeWork) error
	// ReadVolume writes all bytes of the volume's file to the writer that open returns. It calls open with the file's
	// size in bytes after all checks have passed. It refuses a volume that a running guest uses or that has a backing
	// file. It delivers the last bytes only if nobody wrote to the file during the read.
	ReadVolume(ctx context.Context, in VolumeWork, open func(size int64) (io.Writer, error)) error
	// HashVolume computes the SHA-256 of the volume's file and reports it to in.RecordChecksums. It refuses a volume
	// that a running guest uses, or that changes during the read.
	HashVolume(ctx context.Context, in VolumeWork) error
	// CopyVolume copies Params.Source of the pool in.SourcePool (nil: the same pool) byte by byte, reports both
	// checksums to in.RecordChecksums, and refuses bytes that do not match Params.Checksum. With Params.Flatten, the
	// source is a disk, and CopyVolume makes one qcow2 image from the disk's backing chain within its pool. It refuses
	// a volume that a running guest uses, or that changes during the copy. Other volumes may be backed by the source.
	CopyVolume(ctx context.Context, in VolumeWork) error
	// ConvertVolume creates a qcow2 image from the volume Params.Source in pool in.SourcePool (nil: the same pool). The
	// source is a disk in another format, or an OVA archive; ConvertVolume then verifies the checksum of the disk
	// Params.Member in the archive. It opens no file but the source, even if the source refers to other files. It refuses
	// sources with backing files, sources whose header declares more than the free space, and sources that a running
	// guest uses.
	ConvertVolume(ctx context.Context, in VolumeWork) error
	// ExportVolume creates an OVA archive of the disks of Params.Export, each with its backing chain, and of their
	// description. It refuses disks that a running guest uses, and fails at the start if the pool has not enough space.
	ExportVolume(ctx context.Context, in VolumeWork) error
	// SendVolume passes the volume's file to in.Send. If the transfer reads the whole file, SendVolume reports its checksum
	// to in.RecordChecksums. It refuses a volume that a running guest uses, or that changes during the transfer.
	SendVolume(ctx context.Context, in VolumeWork) error
	// ReceiveVolume receives a file from another host through in.Receive. It verifies Params.Checksum if set and
	// inspects the file like a download. With Params.Transfer.Check it also reads the file back from the storage. It
	// reports the checksum to in.RecordChecksums. A failure leaves no file.
	ReceiveVolume(ctx context.Context, in VolumeWork) error
	// GrowVolume grows the volume to Params.SizeBytes, and does nothing if the volume already has that size. It refuses
	// to shrink a volume, and refuses volumes in use.
	GrowVolume(ctx context.Context, in VolumeWork) error
	// WipeVolume overwrites all data with zeros and preserves size and format. It refuses volumes in use.
	WipeVolume(ctx context.Context, in VolumeWork) error
	// DeleteVolume deletes the volume and refuses volumes in use. It does nothing if the volume does not exist.
	DeleteVolume(ctx context.Context, in VolumeWork) error
}
