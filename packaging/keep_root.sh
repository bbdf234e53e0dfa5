# Defines a function for sysroot.sh and foreign_root.sh, which source this file. keep_root TREE FOLDER: copies a system
# root into the cache. Absolute links, such as that of the dynamic linker, become relative, so that they point into the
# copy. FOLDER/.done is created when the copy is complete.
keep_root() {
  local tree=$1 folder=$2
  find "$tree" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfn --relative "$tree$(readlink "$link")" "$link"
  done
  touch "$tree/.done"
  mkdir -p "$(dirname "$folder")"
  rm -rf "$folder"
  cp -a "$tree" "$folder"
}
