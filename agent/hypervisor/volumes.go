package hypervisor

import (
	"context"
	"encoding/hex"
	"io"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// RefuseTakenPoolSource refuses a pool if a pool of the host with another name has the same source. where describes the
// source; empty: unknown.
func RefuseTakenPoolSource(other, where string) error {
	if where != "" {
		where = " (" + where + ")"
	}
	return fleet.Errorf(fleet.Conflict, "The host already has a storage pool named %q with this source%s, and libvirt refuses a second pool with the same source. "+
		"Name your pool %[1]s to use the existing pool, or choose another source.", other, where)
}

// ReceivedFile is a file received from another host.
type ReceivedFile struct {
	Bytes int64
	Sum   transfer.FileSum
}

// SHA256 returns the checksum in hexadecimal, as in reports.
func (a ReceivedFile) SHA256() string { return hex.EncodeToString(a.Sum[:]) }

// UploadConns delivers the connections that carry an upload's bytes.
type UploadConns <-chan io.ReadWriteCloser

// VolumeWork is a job for one volume.
type VolumeWork struct {
	Pool   fleet.Pool
	Name   string
	Params fleet.VolumeParams
	// SourcePool is the pool of Params.Source; nil: the same pool.
	SourcePool *fleet.Pool
	Pools      []fleet.Pool // export: the pools of the disks
	// RecordChecksums receives computed checksums. If RecordChecksums fails, the job ends.
	RecordChecksums func(...VolumeChecksum) error
	RecordedFile    string // the file that an earlier attempt of this job passed to RecordFile; empty: none
	// RecordFile receives the new file once its content is complete, before the file gets the volume's name. If
	// RecordFile fails, the job ends.
	RecordFile  func(file string) error
	Progress    Progress
	UploadConns UploadConns // upload: the incoming data
	// Send sends a file to another host and returns once that host has the whole file.
	Send func(ctx context.Context, pieces transfer.Pieces, size int64) error
	// Receive writes a file from another host into dst, with at most room bytes of data. It may truncate dst and start
	// again.
	Receive func(ctx context.Context, dst transfer.Sink, room int64) (ReceivedFile, error)
}

// Ref names the volume.
func (w VolumeWork) Ref() fleet.Volref { return fleet.Volref{PoolID: w.Pool.ID, Volume: w.Name} }

// FormatDownloadProgress formats the progress of a download for people.
func FormatDownloadProgress(done, total, rate int64) (percent int, note string) {
	note = fleet.FormatBytes(done)
	if total > 0 {
		percent, note = int(min(99, float64(done)/float64(total)*100)), note+" of "+fleet.FormatBytes(total)
	}
	if rate > 0 {
		note += ", " + fleet.FormatBytes(rate) + "/s"
	}
	return percent, note
}

// Both backends return the following errors when they refuse a volume job.

// RefuseTakenVolumeName refuses to create a volume in place of an existing one.
func RefuseTakenVolumeName(name, pool string) error {
	return fleet.Errorf(fleet.Conflict, "The pool %s already has a volume named %s. The volume was not changed. Choose another name.", pool, name)
}

// NoVolumeError reports that the pool has no volume with the name.
func NoVolumeError(name, pool string) error {
	return fleet.Errorf(fleet.NotFound, "The pool %s has no volume named %s on this host.", pool, name)
}

// RefuseGrowEncryptedWhileOff refuses to grow an encrypted disk of a stopped VM, because only QEMU has the disk's
// passphrase.
func RefuseGrowEncryptedWhileOff(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is encrypted, so the disk can grow only while its guest runs. Start the VM, and then grow the disk.", name)
}

// RefuseUsedVolume refuses a volume that a domain of the host uses.
func RefuseUsedVolume(name, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is in use by the VM %s on this host. Detach the volume from the VM first.", name, domain)
}

// RefuseVolumeOfRunningVM refuses to read a volume that a running guest may write to.
func RefuseVolumeOfRunningVM(name, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s is running and uses the volume %s, so a copy would be inconsistent. Shut the VM down first.", domain, name)
}

// RefuseBackingVolume refuses to change a volume that backs another volume.
func RefuseBackingVolume(name, other string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is backed by %s and would be damaged. Flatten or delete the backed volume first.", other, name)
}

// RefuseVolumeRename refuses a new name in pools whose volumes cannot be renamed.
func RefuseVolumeRename(pool string) error {
	return fleet.Errorf(fleet.Conflict, "libvirt cannot rename volumes of the pool %s. Clone the volume under the new name, and delete this volume.", pool)
}

// RefuseSendOfBlockVolume refuses to send a volume of a block pool.
func RefuseSendOfBlockVolume(pool string) error {
	return fleet.Errorf(fleet.Conflict, "The volumes of the pool %s are not files, so Quantix cannot send them. Copy the volumes with the tools of their storage.", pool)
}

// RefuseVolumeWithBackingFile refuses to send a volume without its backing file.
func RefuseVolumeWithBackingFile(name, other string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is backed by %s, so the volume alone is incomplete. Create an image from the VM that uses this disk. The image has all data in one file.", name, other)
}

// RefuseImageOfRawDisk refuses to create an image from a raw disk whose content looks like another format, because
// readers of the image would detect that format.
func RefuseImageOfRawDisk(name, format string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is a raw disk, but its content looks like the format %s, so no image can be created from the disk. "+
		"Add a qcow2 disk to the VM, and copy the data in the guest.", name, format)
}

// RefuseVolumeSuffix refuses a file name whose suffix does not fit the format of the file, or of the guest's data in
// the file.
func RefuseVolumeSuffix(name, format string) error {
	if fleet.IsRawName(name) {
		return fleet.Errorf(fleet.Conflict, "The file for the name %s has the format %s, but only raw disks can have names that end in .raw. Choose another name.", name, format)
	}
	return fleet.Errorf(fleet.Conflict, "The file for the name %s is a raw disk, but its content looks like the format %s. Choose a name that ends in .raw, so that the disk stays a raw disk.", name, format)
}

// RefuseShrink refuses to shrink a volume.
func RefuseShrink(name string, has, asked int64) error {
	return fleet.Errorf(fleet.Invalid, "The volume %s has %d bytes, more than the requested %d. A volume can only grow.", name, has, asked)
}
