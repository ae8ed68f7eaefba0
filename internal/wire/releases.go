package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// ReleaseManifest is the content of the signature file of a release of the agent.
type ReleaseManifest struct {
	Manifest []byte `json:"manifest"`
}

// ReleaseManifest fetches the signature of the release that a job of this host installs.
func (c *Client) ReleaseManifest(ctx context.Context, version, platform string) (ReleaseManifest, error) {
	var out ReleaseManifest
	err := c.call(ctx, releasePath(version, platform)+"/manifest", struct{}{}, &out)
	return out, err
}

func releasePath(version, platform string) string {
	return PathReleases + url.PathEscape(version) + "/" + url.PathEscape(platform)
}

// releaseAnswerLimit limits the wait for the first byte of a release.
const releaseAnswerLimit = 30 * time.Second

// OpenRelease downloads the program of the release, over a connection of its own. The caller closes the reader, and
// limits the number of bytes that it reads.
func (c *Client) OpenRelease(ctx context.Context, version, platform string) (io.ReadCloser, error) {
	conf := c.transport.Load().tls
	httpClient := &http.Client{
		Transport: &http.Transport{
			DialContext: newDialer().DialContext, TLSClientConfig: conf, DisableKeepAlives: true, DisableCompression: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: releaseAnswerLimit,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.portal.JoinPath(releasePath(version, platform)).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = c.header()
	answer, err := httpClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("download the release: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, portalError(answer.StatusCode, answer.Body)
	}
	return answer.Body, nil
}
