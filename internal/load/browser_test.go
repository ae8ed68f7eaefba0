package load

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// A client retries after the delay that a busy portal sends. A refusal is not retried.
func TestFormRetriedWhenPortalBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []int
		ok      bool
	}{
		"busy at first": {[]int{http.StatusServiceUnavailable, http.StatusSeeOther}, true},
		"refused":       {[]int{http.StatusUnprocessableEntity}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(c.answers[requests])
				requests++
			}))
			defer portal.Close()
			client := portal.Client()
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			err := (&browser{portal: portal.URL, via: client}).post(t.Context(), "/sign-in", url.Values{})
			if (err == nil) != c.ok || requests != len(c.answers) {
				t.Errorf("%d requests: %v", requests, err)
			}
		})
	}
}
