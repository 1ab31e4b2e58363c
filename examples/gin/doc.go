// Package gin shows Redfence in front of gin.
package gin
