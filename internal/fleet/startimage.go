package fleet

import (
	"cmp"
	"strings"
	"time"
)

// MaxStartImages is the maximum number of catalog entries.
const MaxStartImages = 200

// CatalogImage is an entry of the image catalog: the address of a well-known image that can be downloaded.
type CatalogImage struct {
	ID          StartImageID `json:"id"`
	Name        string       `json:"name"` // name of the entry, and of the image after the download
	OS          OSFacts      `json:"os"`
	URL         string       `json:"url"`
	File        string       `json:"file"`                  // volume name
	Checksum    string       `json:"checksum,omitempty"`    // checksum of the download: "sha256:…" or "sha512:…"
	ChecksumURL string       `json:"checksumUrl,omitempty"` // address of a checksum file, as an alternative to Checksum
	ChangedBy   string       `json:"changedBy,omitempty"`   // empty: the entry is unchanged since the installation of Quantix
	ChangedAt   time.Time    `json:"changedAt"`
}

// CatalogImageView is a catalog entry with its downloaded copies.
type CatalogImageView struct {
	CatalogImage
	ImageID ImageID      `json:"imageId,omitempty"` // image created from the entry; empty: none
	Pulled  []StartPull  `json:"pulled"`            // usable copies, newest version first
	Last    *StartResult `json:"last,omitempty"`    // result of the last download
}

// StartPull is a pool's copy of the image that a catalog entry names.
type StartPull struct {
	PoolID   PoolID `json:"poolId"`
	PoolName string `json:"poolName"`
	HostName string `json:"hostName,omitempty"` // for a local pool
	Version  int    `json:"version"`
}

// StartResult is the state of a catalog entry's last download task.
type StartResult struct {
	TaskID   TaskID     `json:"taskId"`
	State    JobState   `json:"state"`
	Progress int        `json:"progress"`
	Note     string     `json:"note,omitempty"`
	Error    string     `json:"error,omitempty"`
	EndedAt  *time.Time `json:"endedAt,omitempty"`
}

// IsActive reports whether the download is queued or running.
func (r *StartResult) IsActive() bool {
	return r != nil && !r.State.IsFinal()
}

// ActPull downloads a catalog entry.
const ActPull Action = "pull"

var startImageActions = actionTable[CatalogImageView]{
	{ActPull, func(v CatalogImageView) string {
		if v.Last.IsActive() {
			return "The image is already being downloaded. Wait for that task, or cancel it."
		}
		return ""
	}},
	{ActEdit, nil},
	{ActDelete, nil},
}

// Allows reports whether the entry allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (v CatalogImageView) Allows(a Action) (bool, string) { return startImageActions.allows(v, a) }

func (v CatalogImageView) Actions() []ActionState { return startImageActions.actionStates(v) }

// Normalized returns the entry in its stored form: texts trimmed, a file name set, and the checksum in canonical form.
func (i CatalogImage) Normalized() CatalogImage {
	for _, text := range []*string{&i.Name, &i.URL, &i.File, &i.Checksum, &i.ChecksumURL, &i.OS.Name, &i.OS.Version, &i.OS.Arch} {
		*text = strings.TrimSpace(*text)
	}
	i.File = cmp.Or(i.File, DownloadVolumeName(i.URL))
	if algorithm, digest, ok := ParseChecksum(i.Checksum); ok && digest != "" {
		i.Checksum = algorithm + ":" + digest
	}
	return i
}

// Check adds an error for each invalid field.
func (i CatalogImage) Check(c *Checks) {
	CheckImageName(c, "name", i.Name)
	i.OS.Check(c, "os")
	CheckNewVolume(c, "file", i.File)
	CheckDownload(c, i.URL, i.Checksum, i.ChecksumURL)
}

// CheckDownload adds errors at the fields url, checksum and checksumUrl if a host cannot download from the address.
func CheckDownload(c *Checks, address, checksum, checksumURL string) {
	_, digest, known := ParseChecksum(checksum)
	if !known {
		c.Add("checksum", "Enter the 64 digits of a SHA-256, or the 128 digits of a SHA-512.")
	}
	if checksumURL != "" {
		if digest != "" {
			c.Add("checksumUrl", "Enter the checksum or the address of a checksum file, not both.")
		}
		if _, err := ParseChecksumFileURL(checksumURL); err != nil {
			c.Add("checksumUrl", "%s", err)
		}
	}
	at, err := ParseDownloadURL(address, digest != "" || !known || checksumURL != "")
	switch {
	case err != nil:
		c.Add("url", "%s", err)
	case at.RawQuery != "" || at.ForceQuery:
		c.Add("url", "The address must not contain a question mark, because requests are stored and the part after it is often secret. Serve the file without it.")
	}
}
