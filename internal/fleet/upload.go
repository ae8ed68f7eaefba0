package fleet

import (
	"strings"
	"time"
)

// UploadID identifies an upload.
type UploadID string

// Limits of an upload's duration: without new data, and in total.
const (
	UploadIdleTimeout = 24 * time.Hour
	UploadLifetime    = 7 * 24 * time.Hour
)

// Upload is a file that a user sends to a pool on a host. Only that host knows how many bytes it has received.
type Upload struct {
	ID        UploadID  `json:"id"`
	TaskID    TaskID    `json:"taskId"`
	PoolID    PoolID    `json:"poolId"`
	HostID    HostID    `json:"hostId"`
	HostName  string    `json:"hostName"`
	Volume    string    `json:"volume"`
	SizeBytes int64     `json:"sizeBytes"`
	Checksum  string    `json:"checksum,omitempty"`
	File      string    `json:"file,omitempty"` // the user's local file, as the browser or client described it
	State     JobState  `json:"state"`          // state of its task
	Progress  int       `json:"progress"`       // percent, as last reported
	Note      string    `json:"note,omitempty"`
	Error     string    `json:"error,omitempty"` // the host's own message
	CreatedAt time.Time `json:"createdAt"`
	EndsAt    time.Time `json:"endsAt"` // when the upload is discarded unless more data arrives
}

// MaxFile is the maximum length of Upload.File.
const MaxFile = 300

// LocalFileName returns the name of the user's local file.
func (u Upload) LocalFileName() string {
	name, _, _ := strings.Cut(u.File, "/")
	return name
}

// IsComplete reports whether the upload is complete and the volume has its final name.
func (u Upload) IsComplete() bool { return u.State == JobDone }

// EndedError returns why the upload cannot be continued; nil: it can.
func (u Upload) EndedError() error {
	switch {
	case !u.State.IsFinal() || u.IsComplete():
		return nil
	case u.Error != "":
		return Errorf(Invalid, "%s", u.Error)
	}
	return Errorf(Invalid, "This upload has ended. Start a new one.")
}
