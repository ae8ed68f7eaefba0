package kit

import (
	"net/url"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
)

// uploadPath is the tus address of an upload.
func uploadPath(id fleet.UploadID) string { return "/uploads/" + url.PathEscape(string(id)) }

// cancelUploadAction is the action that cancels an upload. The host then deletes the uploaded data.
func cancelUploadAction(u fleet.Upload, back string) ActionButton {
	return ActionButton{
		Icon: "x", Word: "Cancel", Label: "Cancel the upload of " + u.Volume, Post: views.TaskPath(u.TaskID, "cancel"), Back: back,
		Confirm: "Cancel the upload of " + u.Volume + "? The received part is removed.",
	}
}

// uploadProgressText describes an upload's progress, as last reported by its host.
func uploadProgressText(u fleet.Upload) string {
	switch {
	case u.Note != "" && u.State == fleet.JobRunning:
		return u.Note
	case u.State == fleet.JobQueued:
		return "waiting for " + u.HostName
	}
	return Bytes(u.SizeBytes)
}

func uploadPercent(u fleet.Upload) string { return strconv.Itoa(u.Progress) }
