package fleet

import (
	"strings"
	"time"
)

// UploadID names an upload.
type UploadID string

// How long an upload may take: it ends when nobody has continued it for so long, and in all.
const (
	UploadPatience = 24 * time.Hour
	UploadLife     = 7 * 24 * time.Hour
)

// Upload is a file that somebody sends into a pool on a host. How much of it there is, that host alone knows.
type Upload struct {
	ID        UploadID  `json:"id"`
	TaskID    TaskID    `json:"taskId"`
	PoolID    PoolID    `json:"poolId"`
	HostID    HostID    `json:"hostId"`
	HostName  string    `json:"hostName"`
	Volume    string    `json:"volume"`
	SizeBytes int64     `json:"sizeBytes"`
	Checksum  string    `json:"checksum,omitempty"`
	File      string    `json:"file,omitempty"` // what tells the sender's own file from others, as the sender said it
	State     JobState  `json:"state"`          // of its task
	Progress  int       `json:"progress"`       // percent, as the host last said it
	Note      string    `json:"note,omitempty"`
	Error     string    `json:"error,omitempty"` // why it failed, in the host's own words
	CreatedAt time.Time `json:"createdAt"`
	EndsAt    time.Time `json:"endsAt"` // when it is given up, unless somebody continues it
}

// MaxFile bounds what a sender says of the own file.
const MaxFile = 300

// Name is what the sender's own file is called.
func (u Upload) Name() string {
	name, _, _ := strings.Cut(u.File, "/")
	return name
}

// Whole reports whether all of it is in the pool, under its name.
func (u Upload) Whole() bool { return u.State == JobDone }

// Over is why it cannot be continued; nil: it can.
func (u Upload) Over() error {
	switch {
	case !u.State.Ended() || u.Whole():
		return nil
	case u.Error != "":
		return Errorf(Invalid, "%s", u.Error)
	}
	return Errorf(Invalid, "This upload has ended. Begin it anew.")
}
