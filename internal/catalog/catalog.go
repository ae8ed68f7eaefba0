// Package catalog defines the image catalog: addresses of well-known images that can be downloaded.
package catalog

import (
	"cmp"
	"strings"
	"time"

	"quantix/internal/download"
	"quantix/internal/fleet"
)

// MaxImages is the maximum number of catalog entries.
const MaxImages = 200

// Image is an entry of the image catalog: the address of a well-known image that can be downloaded.
type Image struct {
	ID          fleet.StartImageID `json:"id"`
	Name        string             `json:"name"` // name of the entry, and of the image after the download
	OS          fleet.OSFacts      `json:"os"`
	URL         string             `json:"url"`
	File        string             `json:"file"`                  // volume name
	Checksum    string             `json:"checksum,omitempty"`    // checksum of the download: "sha256:…" or "sha512:…"
	ChecksumURL string             `json:"checksumUrl,omitempty"` // address of a checksum file, as an alternative to Checksum
	ChangedBy   string             `json:"changedBy,omitempty"`   // empty: the entry is unchanged since the installation of Quantix
	ChangedAt   time.Time          `json:"changedAt"`
}

// View is a catalog entry with its downloaded copies.
type View struct {
	Image
	ImageID fleet.ImageID `json:"imageId,omitempty"` // image created from the entry; empty: none
	Pulled  []Copy        `json:"pulled"`            // usable copies, newest version first
	Last    *Result       `json:"last,omitempty"`    // result of the last download
}

// Copy is a pool's copy of the image that a catalog entry names.
type Copy struct {
	PoolID   fleet.PoolID `json:"poolId"`
	PoolName string       `json:"poolName"`
	HostName string       `json:"hostName,omitempty"` // for a local pool
	Version  int          `json:"version"`
}

// Result is the state of a catalog entry's last download task.
type Result struct {
	TaskID   fleet.TaskID   `json:"taskId"`
	State    fleet.JobState `json:"state"`
	Progress int            `json:"progress"`
	Note     string         `json:"note,omitempty"`
	Error    string         `json:"error,omitempty"`
	EndedAt  *time.Time     `json:"endedAt,omitempty"`
}

// IsActive reports whether the download is queued or running.
func (r *Result) IsActive() bool {
	return r != nil && !r.State.IsFinal()
}

var actions = fleet.ActionTable[View]{
	{Action: fleet.ActPull, Why: func(v View) string {
		if v.Last.IsActive() {
			return "The image is already being downloaded. Wait for that task, or cancel it."
		}
		return ""
	}},
	{Action: fleet.ActEdit},
	{Action: fleet.ActDelete},
}

// Allows reports whether the entry allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (v View) Allows(a fleet.Action) (bool, string) { return actions.Allows(v, a) }

func (v View) Actions() []fleet.ActionState { return actions.States(v) }

// Normalized returns the entry in its stored form: texts trimmed, a file name set, and the checksum in canonical form.
func (i Image) Normalized() Image {
	for _, text := range []*string{&i.Name, &i.URL, &i.File, &i.Checksum, &i.ChecksumURL, &i.OS.Name, &i.OS.Version, &i.OS.Arch} {
		*text = strings.TrimSpace(*text)
	}
	i.File = cmp.Or(i.File, download.VolumeName(i.URL))
	if algorithm, digest, ok := download.ParseChecksum(i.Checksum); ok && digest != "" {
		i.Checksum = algorithm + ":" + digest
	}
	return i
}

// Check adds an error for each invalid field.
func (i Image) Check(c *fleet.Checks) {
	fleet.CheckImageName(c, "name", i.Name)
	i.OS.Check(c, "os")
	fleet.CheckNewVolume(c, "file", i.File)
	download.Check(c, i.URL, i.Checksum, i.ChecksumURL)
}
