package kit

import (
	"net/url"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
)

// uploadPath is where tus finds an upload.
func uploadPath(id fleet.UploadID) string { return "/uploads/" + url.PathEscape(string(id)) }

// cancelUpload takes it back with all that came.
func cancelUpload(u fleet.Upload, back string) Act {
	return Act{
		Icon: "x", Word: "Cancel", Label: "Cancel the upload of " + u.Volume, Post: views.TaskPath(u.TaskID, "cancel"), Back: back,
		Sure: "Cancel the upload of " + u.Volume + "? What has come of it is removed.",
	}
}

// uploadWords are how far it is, as its host last said it.
func uploadWords(u fleet.Upload) string {
	switch {
	case u.Note != "" && u.State == fleet.JobRunning:
		return u.Note
	case u.State == fleet.JobQueued:
		return "waiting for " + u.HostName
	}
	return Bytes(u.SizeBytes)
}

func percentOf(u fleet.Upload) string { return strconv.Itoa(u.Progress) }
