package auth

import (
	"net/http"
	"strings"
)

// BearerToken returns the bearer token of the Authorization header, or "".
func BearerToken(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}
