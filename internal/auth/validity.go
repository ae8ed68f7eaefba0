package auth

import (
	"fmt"
	"time"
)

// maxNotice is how long before expiry the portal warns about a certificate. A short-lived certificate causes a warning
// only in the last quarter of its lifetime, because it is normally renewed when a third is left.
const maxNotice = 14 * 24 * time.Hour

// Validity is the validity period of one of the portal's certificates.
type Validity struct {
	Use         string // "browsers", "agents", or "hosts" for the authority that signs host certificates
	File        string // the certificate's file; empty: the portal issued the certificate
	From, Until time.Time
}

// Warning returns a sentence if the certificate has expired or expires soon, with the remedy; empty otherwise.
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
		text += " Renew " + v.File + ": the portal reads the new file automatically."
	}
	return text
}
