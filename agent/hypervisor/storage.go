package hypervisor

import (
	"context"
	"io"

	"quantix/internal/fleet"
)

// Storage sets up the host's pools and works on their volumes.
type Storage interface {
	// ApplyPool defines, builds (directory created if missing), starts, autostarts and refreshes the pool. It refuses a
	// libvirt pool of that name with another source, and a pool of another name at that place (see PoolPlaceTaken). It
	// also refuses a directory outside the agent's pooldir.Roots, one with another pool's marker, and, once the pool was
	// active, any directory but its own: it creates and starts nothing there. Block pools are never built: their
	// storage must exist.
	ApplyPool(ctx context.Context, pool fleet.Pool) error
	// SetPoolSecret stores the credential for the pool's storage in the hypervisor, which alone can read it again. It
	// is called before ApplyPool. The secret is removed with the pool. An equal secret changes nothing.
	SetPoolSecret(ctx context.Context, pool fleet.Pool, secret string) error
	// ReleasePool stops and undefines the pool and keeps its data. It refuses while a domain on this host uses its
	// volumes. A pool that the host had before Quantix stays defined, returns to its earlier state, active or not, and
	// may still be used by the host's own domains. ReleasePool removes the marker, except a shared pool's, which stays
	// until the pool itself is deleted.
	ReleasePool(ctx context.Context, pool fleet.Pool) error

	// The methods below work on one volume of a pool that must be active, in its own directory and within pooldir.Roots.
	// The volume is a regular file there, or in a block pool libvirt's volume of that name; a volume to create must not
	// exist. Users of the file are searched at that very moment by the file itself, not by its path in definitions; the
	// error names the domain that uses it. Incomplete volumes are not volumes: the next attempt removes them, and
	// without one they are listed as unfinished.

	// CreateVolume creates an empty volume.
	CreateVolume(ctx context.Context, in VolumeWork) error
	// CloneVolume copies Order.Source in its format. It refuses a volume that a running guest uses, that changes
	// meanwhile, or that has a backing file.
	CloneVolume(ctx context.Context, in VolumeWork) error
	// FetchVolume downloads Order.URL, verifies Order.Checksum, and refuses a file that is no self-contained image. It
	// connects only to addresses that the agent's settings allow, whatever the name resolves to and wherever a server
	// redirects.
	FetchVolume(ctx context.Context, in VolumeWork) error
	// UploadVolume receives Order.SizeBytes through the connections of Sent, verifies Order.Checksum, and refuses the
	// same files as FetchVolume. If ctx ends early, the received bytes stay, and the next order with the same
	// Order.Upload continues from there.
	UploadVolume(ctx context.Context, in VolumeWork) error
	// RenameVolume renames Order.Source, an unused volume of the pool, to the order's name, unless that name exists. It
	// reports the file to in.Whole first, so that a repeated order recognizes its own file.
	RenameVolume(ctx context.Context, in VolumeWork) error
	// ReadVolume writes all bytes of the volume's file to the writer that to returns. It calls to with the size in
	// bytes after all checks have passed. It refuses a volume that a running guest uses or that has a backing file, and
	// delivers the last bytes only if nobody wrote to the file meanwhile.
	ReadVolume(ctx context.Context, in VolumeWork, to func(size int64) (io.Writer, error)) error
	// HashVolume computes the SHA-256 of the volume's file and reports it to in.Hashed. It refuses a volume that a
	// running guest uses, or that changes meanwhile.
	HashVolume(ctx context.Context, in VolumeWork) error
	// CopyVolume copies Order.Source of the pool in.Source (nil: the same pool) byte by byte, reports both checksums to
	// in.Hashed, and refuses bytes that do not match Order.Checksum. With Order.Flatten the source is a disk, whose
	// chain within its pool becomes one qcow2 image. It refuses a volume that a running guest uses, or that changes
	// meanwhile; files backed by the source do not matter.
	CopyVolume(ctx context.Context, in VolumeWork) error
	// ConvertVolume makes a qcow2 image of Order.Source of the pool in.Source (nil: the same pool): of a disk in
	// another format, or of the disk Order.Member of an OVA archive, whose checksum it verifies. It opens no file but
	// the source's, whatever the source refers to. It refuses sources with backing files, sources whose header declares
	// more than the free space, and sources that a running guest uses.
	ConvertVolume(ctx context.Context, in VolumeWork) error
	// ExportVolume makes an OVA archive of the disks of Order.Export, each with its backing chain, and of their
	// description. It refuses disks that a running guest uses, and starts only if there is room for all of it.
	ExportVolume(ctx context.Context, in VolumeWork) error
	// SendVolume passes the volume's file to Send, and reports its checksum to in.Hashed if it reads all of it. It
	// refuses a volume that a running guest uses, or that changes meanwhile.
	SendVolume(ctx context.Context, in VolumeWork) error
	// ReceiveVolume receives a file from another host through Arrive. It verifies Order.Checksum if set, checks the
	// file like a download before it gets its name, and with Order.Transfer.Check reads it back from the storage. It
	// reports the checksum to in.Hashed. A failure leaves no file.
	ReceiveVolume(ctx context.Context, in VolumeWork) error
	// GrowVolume grows the volume to the size in the order, and does nothing if it is that large already. It refuses to
	// shrink, and refuses volumes in use.
	GrowVolume(ctx context.Context, in VolumeWork) error
	// WipeVolume overwrites all data with zeros and keeps size and format. It refuses volumes in use.
	WipeVolume(ctx context.Context, in VolumeWork) error
	// DeleteVolume deletes the volume and refuses volumes in use. It does nothing if the volume does not exist.
	DeleteVolume(ctx context.Context, in VolumeWork) error
}
