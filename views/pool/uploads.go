package pool

import "quantix/views/kit"

func (p Page) uploadVolume() kit.Act {
	return p.volumeToCome("upload", "Upload", "upload")
}
