package fleet

import (
	"cmp"
	"strings"
	"time"
)

// MaxStartImages bounds the list of well-known images.
const MaxStartImages = 200

// StartImage is a well-known image: an address from which it can be pulled into the library.
type StartImage struct {
	ID          StartImageID `json:"id"`
	Name        string       `json:"name"` // as people know it, and what the image is called
	OS          OSFacts      `json:"os"`
	URL         string       `json:"url"`
	File        string       `json:"file"`                  // the volume's name
	Checksum    string       `json:"checksum,omitempty"`    // of the download: "sha256:…" or "sha512:…"
	ChecksumURL string       `json:"checksumUrl,omitempty"` // or the address of a file that has it
	ChangedBy   string       `json:"changedBy,omitempty"`   // empty: it is as it came with Quantix
	ChangedAt   time.Time    `json:"changedAt"`
}

// StartImageView is a well-known image with what has been pulled of it.
type StartImageView struct {
	StartImage
	ImageID ImageID      `json:"imageId,omitempty"` // the library's image of it; empty: none
	Pulled  []StartPull  `json:"pulled"`            // copies that can be used, of the newest version first
	Last    *StartResult `json:"last,omitempty"`    // how it went the last time
}

// StartPull is a copy of what was pulled.
type StartPull struct {
	PoolID   PoolID `json:"poolId"`
	PoolName string `json:"poolName"`
	HostName string `json:"hostName,omitempty"` // of a local pool
	Version  int    `json:"version"`
}

// StartResult is the last order to pull.
type StartResult struct {
	TaskID   TaskID     `json:"taskId"`
	State    JobState   `json:"state"`
	Progress int        `json:"progress"`
	Note     string     `json:"note,omitempty"`
	Error    string     `json:"error,omitempty"`
	EndedAt  *time.Time `json:"endedAt,omitempty"`
}

// Busy reports whether a host is at it, or is asked to be.
func (r *StartResult) Busy() bool {
	return r != nil && !r.State.Ended()
}

// ActPull is asked of a well-known image.
const ActPull Action = "pull"

var startOffers = offers[StartImageView]{
	{ActPull, func(v StartImageView) string {
		if v.Last.Busy() {
			return "It is being pulled already. Wait for that, or cancel its task."
		}
		return ""
	}},
	{ActEdit, nil},
	{ActDelete, nil},
}

// Allows says whether the entry can be asked for the action now, and if not, why. Actions lists all of them.
func (v StartImageView) Allows(a Action) (bool, string) { return startOffers.allows(v, a) }
func (v StartImageView) Actions() []ActionState         { return startOffers.states(v) }

// Tidy is the entry as it is kept: without spaces around what was typed, with a file's name, and the checksum in its one spelling.
func (i StartImage) Tidy() StartImage {
	for _, text := range []*string{&i.Name, &i.URL, &i.File, &i.Checksum, &i.ChecksumURL, &i.OS.Name, &i.OS.Version, &i.OS.Arch} {
		*text = strings.TrimSpace(*text)
	}
	i.File = cmp.Or(i.File, NameOfDownload(i.URL))
	if algorithm, digest, ok := ParseChecksum(i.Checksum); ok && digest != "" {
		i.Checksum = algorithm + ":" + digest
	}
	return i
}

// Check notes what keeps the entry from being one.
func (i StartImage) Check(c *Checks) {
	CheckImageName(c, "name", i.Name)
	i.OS.Check(c, "os")
	CheckNewVolume(c, "file", i.File)
	CheckDownload(c, i.URL, i.Checksum, i.ChecksumURL)
}

// CheckDownload notes at url, checksum and checksumUrl what keeps a host from downloading it.
func CheckDownload(c *Checks, address, checksum, checksumURL string) {
	_, digest, known := ParseChecksum(checksum)
	if !known {
		c.Add("checksum", "Give the 64 digits of a SHA-256, or the 128 of a SHA-512.")
	}
	if checksumURL != "" {
		if digest != "" {
			c.Add("checksumUrl", "Give the checksum or the address of a file that has it, not both.")
		}
		if _, err := ParseChecksumFile(checksumURL); err != nil {
			c.Add("checksumUrl", "%s", err)
		}
	}
	at, err := ParseDownload(address, digest != "" || !known || checksumURL != "")
	switch {
	case err != nil:
		c.Add("url", "%s", err)
	case at.RawQuery != "" || at.ForceQuery:
		c.Add("url", "An address with a question mark is not taken: what follows it often lets people in, and orders are kept as they were given. Offer the file without.")
	}
}
