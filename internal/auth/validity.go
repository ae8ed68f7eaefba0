package auth

import (
	"fmt"
	"time"
)

// maxNotice is how long before its end the portal warns of a certificate; of one with a short life for its last quarter alone, as
// whoever renews certificates does so when a third of their life is left.
const maxNotice = 14 * 24 * time.Hour

// Validity is the period of one of the portal's certificates.
type Validity struct {
	Use         string // "browsers", "agents", or "hosts": the authority that signs their certificates
	File        string // where it comes from; empty: the portal made it
	From, Until time.Time
}

// Warning says that the certificate has ended or will end soon, and what to do; empty: neither.
func (v Validity) Warning(now time.Time) string {
	left := v.Until.Sub(now)
	if left > min(maxNotice, v.Until.Sub(v.From)/4) {
		return ""
	}
	ends := "ends on"
	if left <= 0 {
		ends = "has ended on"
	}
	text := fmt.Sprintf("The portal's certificate for %s %s %s.", v.Use, ends, v.Until.UTC().Format("2 January 2006 15:04 UTC"))
	if v.File != "" {
		text += " Renew " + v.File + ": the portal takes the new file by itself."
	}
	return text
}
