package pool

import "quantix/views/kit"

func (p Page) uploadVolumeAction() kit.ActionButton {
	return p.newVolumeAction("upload", "Upload", "upload")
}
