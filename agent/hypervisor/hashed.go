package hypervisor

import "quantix/internal/fleet"

// VolumeChecksum is a volume whose checksum this host has computed.
type VolumeChecksum struct {
	Ref    fleet.Volref `json:"ref"`
	SHA256 string       `json:"sha256"`
	// FileStamp identifies the content of the file at the time of the checksum. Only the backend interprets it.
	FileStamp string `json:"stamp"`
}

// AddTo adds the checksum to the volume if unchanged is set, and otherwise marks the volume as altered. unchanged means
// that the file has not changed since the checksum, as far as the host knows.
func (h VolumeChecksum) AddTo(v *fleet.Volume, unchanged bool) {
	if v.Altered = !unchanged; unchanged {
		v.SHA256 = h.SHA256
	}
}

// RefuseDifferentCopy refuses a copy whose bytes differ from the job's checksum.
func RefuseDifferentCopy(name, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s has other bytes than the image: the volume's SHA-256 is %s, but the image's SHA-256 is %s. The copy was removed.", name, got, want)
}

// VolumeDiffersFromImageError reports that a copy no longer matches its image.
func VolumeDiffersFromImageError(name, got, want string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s has other bytes than the image: the volume's SHA-256 is %s, but the image's SHA-256 is %s.", name, got, want)
}

// RefuseChangedVolume refuses a volume that somebody wrote to during a read.
func RefuseChangedVolume(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s was written to while it was being read, so its checksum is unknown. Try again when nobody writes to the volume.", name)
}

// NoSourcePoolError reports that the job has no pool to read from.
func NoSourcePoolError() error {
	return fleet.Errorf(fleet.Invalid, "The job names no source pool, or a source pool that is not set up on this host. Assign the source pool to this host first.")
}
