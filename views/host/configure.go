package host

import "quantix/views/kit"

// Form is what people may change about a host, as they typed it.
type Form struct {
	Labels, Taints, Description string
	Generation                  int64
	Errors                      kit.Errors
}
