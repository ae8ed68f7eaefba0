package pool

import "quantix/views/kit"

func (p Page) uploadVolume() kit.Act {
	return p.newVolumeAct("upload", "Upload", "upload")
}
